"""Measuring: studies, plans, and the processes that carry them out. Import the module you need."""
