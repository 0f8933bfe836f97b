"""What commands print: tables, sizes and times as text, a progress meter, whole files, and standard output itself."""
