"""A shared folder of runs on this machine (``holdfast history push gpu1:FOLDER``)."""
