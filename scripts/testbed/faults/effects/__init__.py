"""What each fault changes in the simulated hardware: NVML, sysfs and the kernel log. Pure."""
