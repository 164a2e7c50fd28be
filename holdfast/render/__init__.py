"""What the documents of ``holdfast render`` are made with: templates, values, extra settings."""
