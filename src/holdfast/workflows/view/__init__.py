"""The viewer: all runs below a folder in a browser, served on this machine or written as files. It only reads."""
