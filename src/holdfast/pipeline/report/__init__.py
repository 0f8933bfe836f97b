"""A report on a broker's history: figures from Spark, pictures and tables from plain Python, one page of HTML."""
