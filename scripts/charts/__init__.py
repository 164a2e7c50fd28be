"""What ``holdfast render`` prints, held against the charts, schemas and scripts that it is meant for."""
