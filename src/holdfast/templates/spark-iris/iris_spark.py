"""Tell three kinds of iris apart by the nearest mean flower, with DataFrames of Spark only: python iris_spark.py"""

import csv
import json
import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import holdfast

MEASURES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]

spark = SparkSession.builder.getOrCreate()
with open("iris.csv", newline="") as source:
    _, *rows = csv.reader(source)
flowers = spark.createDataFrame(
    [(number, *map(float, row[:4]), row[4]) for number, row in enumerate(rows)], ["number", *MEASURES, "species"]
)

# Every second flower is learned from, the others are told apart.
learned = (
    flowers.where("number % 2 = 0").groupBy("species").agg(*[f.avg(name).alias("mean_" + name) for name in MEASURES])
)
distance = sum((f.col(name) - f.col("mean_" + name)) ** 2 for name in MEASURES)
others = flowers.where("number % 2 = 1").withColumnRenamed("species", "real")
guesses = (
    others.crossJoin(learned)
    .withColumn("distance", distance)
    .groupBy("number", "real")
    .agg(f.min_by("species", "distance").alias("guess"))
)
counts = {
    "%s as %s" % (row["real"], row["guess"]): row["count"]
    for row in guesses.groupBy("real", "guess").count().orderBy("real", "guess").collect()
}
right = sum(count for pair, count in counts.items() if pair.split(" as ")[0] == pair.split(" as ")[1])
accuracy = right / sum(counts.values())
print("accuracy", round(accuracy, 4), counts)
holdfast.log("Accuracy", accuracy)

os.makedirs("outputs", exist_ok=True)
with open(os.path.join("outputs", "result.json"), "w") as target:
    json.dump({"accuracy": accuracy, "counts": counts}, target, indent=1, sort_keys=True)
