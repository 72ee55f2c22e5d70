"""What is stored: cases and their ids, the typed lines of results.jsonl, and the file itself."""
