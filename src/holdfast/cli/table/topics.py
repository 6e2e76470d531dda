"""How help arranges the commands: a phrase for each group, and the commands of the first page by topic."""

from __future__ import annotations

GROUPS = {
    (): "Run training scripts on any machine you can reach and keep a verifiable record.",
    ("experiment",): "Start, follow and stop runs.",
    ("history",): "Find, compare and manage past runs.",
    ("project",): "Create projects and restore their code.",
    ("project", "sample"): "Templates.",
    ("computetarget",): "Machines to run on.",
    ("data",): "Data sets that a target keeps for runs.",
    ("image",): "Images of a target's container engine.",
    ("kernel",): "Kernels of Jupyter on targets.",
    ("notebook",): "Jupyter in the project's folder.",
    ("runconfiguration",): "Run configurations: a target and its settings.",
    ("env",): "Environments: what is declared, solved and built.",
    ("asset",): "Named and versioned outputs of runs.",
    ("passport",): "Runs as signed files.",
    ("store",): "Maintain the store.",
    ("ui",): "The web workbench.",
}
# Every command that has a name of one word, by that name.
TOPICS = (
    ("Start and follow runs", "submit prepare runs info logs status cancel retry return"),
    ("Compare runs", "compare diff plot metrics reproduce restore"),
    (
        "Organise the history",
        "tag note promote archive unarchive delete undelete last download export import push pull",
    ),
    ("Machines", "attach detach gpu ssh exec forward clean trust"),
    ("Project and store", "docs ui check revive shell config completion du passport diagnostics mcp"),
)
# Groups of hidden commands, which are not on the first page.
HIDDEN_GROUPS = {
    ("account",): "Accounts of the Azure Machine Learning Workbench; Holdfast needs none.",
    ("account", "experimentation"): "Experimentation accounts; Holdfast needs none.",
    ("workspace",): "Workspaces of the Azure Machine Learning Workbench; Holdfast needs none.",
}
