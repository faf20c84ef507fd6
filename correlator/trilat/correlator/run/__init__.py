"""A run and its directory: the manifest, the workers, all requests that it left."""
