"""The exact mathematics that the policies rest on; import its modules one by one."""
