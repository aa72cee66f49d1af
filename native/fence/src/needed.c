/* An empty library. The stand-ins are linked against it for its soname: a placeholder that becomes the driver's absolute path in a copy. */
