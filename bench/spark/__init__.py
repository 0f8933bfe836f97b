"""How fast Spark reads history, against files of the same messages, and who notices."""
