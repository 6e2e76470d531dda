"""The project as content: which files belong to it, their hashes, and the tree that names them."""
