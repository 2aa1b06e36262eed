"""What a turn of Claude costs: live sessions against a process per turn."""
