"""What happens to a job after a failure: pure decisions."""
