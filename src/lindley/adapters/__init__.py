"""Other programs' interfaces: lindley inside the LiR toolkit."""
