/** The two families of routes: predictions and demo predictions have the same. */
import type { Kind } from "../predictions/record.ts";

export interface Family {
  readonly kind: Kind;
  readonly path: "/predictions" | "/demo";
  /** The member of the record's JSON object that holds its id. */
  readonly idName: "prediction_id" | "demo_id";
  /** In names of operations and components. */
  readonly name: "Prediction" | "DemoPrediction";
  /** Of outputs, in which files may be. */
  readonly lists: readonly ("outputs" | "demo_outputs")[];
  readonly tag: string;
  /** Of the tag. */
  readonly description: string;
  readonly noun: string;
}

const prediction: Family = {
  kind: "prediction",
  path: "/predictions",
  idName: "prediction_id",
  name: "Prediction",
  lists: ["outputs"],
  tag: "Predictions",
  description: "Outputs of the model for a list of inputs",
  noun: "prediction",
};
const demo: Family = {
  kind: "demo",
  path: "/demo",
  idName: "demo_id",
  name: "DemoPrediction",
  lists: ["outputs", "demo_outputs"],
  tag: "Demo",
  description: "The same with what the model's demo shows of them, and what it writes meanwhile",
  noun: "demo prediction",
};

export const families: readonly Family[] = [prediction, demo];

export function familyOf(kind: Kind): Family {
  return kind === "demo" ? demo : prediction;
}
