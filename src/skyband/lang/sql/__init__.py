"""SQL in the form that users of Flink know: a window table function, ROW_NUMBER(), and a limit on it."""
