"""The world outside: tables that can be asked for rows by key."""
