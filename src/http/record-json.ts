/** Converts predictions and demo predictions to JSON. Both kinds have the same routes, under `/predictions` and `/demo`. */
import { LargeText } from "../base/large-text.ts";
import { type EndedRecord, type Kind, type PredictionRecord, statusOf } from "../predictions/record.ts";

/** The names of one kind of prediction in routes, in JSON and in the OpenAPI document. */
export interface Family {
  readonly kind: Kind;
  readonly path: "/predictions" | "/demo";
  readonly idName: "prediction_id" | "demo_id";
  /** Prefix of operation ids and component names in the OpenAPI document. */
  readonly name: "Prediction" | "DemoPrediction";
  readonly tag: string;
  readonly tagDescription: string;
  readonly noun: string;
}

const prediction: Family = {
  kind: "prediction",
  path: "/predictions",
  idName: "prediction_id",
  name: "Prediction",
  tag: "Predictions",
  tagDescription: "Outputs of the model for a list of inputs",
  noun: "prediction",
};
const demo: Family = {
  kind: "demo",
  path: "/demo",
  idName: "demo_id",
  name: "DemoPrediction",
  tag: "Demo",
  tagDescription: "Predictions that also have the outputs and the logs of the model's demo",
  noun: "demo prediction",
};

export const families: readonly Family[] = [prediction, demo];

export function familyOf(kind: Kind): Family {
  return kind === "demo" ? demo : prediction;
}

export function recordPath({ path }: Family, id: string): string {
  return `${path}/${id}`;
}

/** The JSON of a prediction. The outputs in the record are JSON text already. */
export function recordJson(record: PredictionRecord, family: Family): string {
  return `${headOf(record, family)}${record.outcome?.members ?? ""}${tailOf(record, family)}`;
}

/** The same JSON as recordJson(), in pieces, since the outputs may be megabytes. */
export function largeRecord(record: EndedRecord, family: Family): LargeText {
  return new LargeText([headOf(record, family), record.outcome.members, tailOf(record, family)]);
}

/** The JSON before the members of the outcome. */
function headOf(record: PredictionRecord, { idName }: Family): string {
  return `{"${idName}":"${record.id}","status":"${statusOf(record)}"${record.outcome === undefined ? "" : ","}`;
}

/** The JSON after the members of the outcome. */
function tailOf(record: PredictionRecord, { kind }: Family): string {
  const { createdAtMs, startedAtMs, finishedAtMs, model } = record;
  const named = model === undefined ? "" : `,"model":${model.json}`;
  const logs = kind === "demo" ? `,"logs":${JSON.stringify(record.logs)}` : "";
  return `${named}${logs},"created_at":"${createdAt(createdAtMs)}"${timesAfter(startedAtMs, finishedAtMs)}}`;
}

/** The last creation time as ISO 8601. Many predictions are created in the same millisecond. */
let created = { ms: Number.NaN, text: "" };

function createdAt(ms: number): string {
  if (ms !== created.ms) created = { ms, text: new Date(ms).toISOString() };
  return created.text;
}

type Ms = number | undefined;
/** The last members `started_at` and `finished_at`. The predictions of one batch have the same times. */
let times: { startedAtMs: Ms; finishedAtMs: Ms; text: string } = {
  startedAtMs: undefined,
  finishedAtMs: undefined,
  text: "",
};

function timesAfter(startedAtMs: Ms, finishedAtMs: Ms): string {
  if (startedAtMs !== times.startedAtMs || finishedAtMs !== times.finishedAtMs) {
    const text = timeMember("started_at", startedAtMs) + timeMember("finished_at", finishedAtMs);
    times = { startedAtMs, finishedAtMs, text };
  }
  return times.text;
}

function timeMember(name: string, ms: Ms): string {
  return ms === undefined ? "" : `,"${name}":"${new Date(ms).toISOString()}"`;
}

/** Length in characters from which answers are sent in pieces. Shorter answers fit into the socket's send buffer. */
export const LARGE_ANSWER_LENGTH = 64 * 1024;

/** Bun 1.4 writes the headers and the body of an asynchronous answer in one system call if the body is shorter than this length in bytes. */
const SENT_AT_ONCE = 16 * 1024 - 1024;

/**
 * Creates the body of an answer: from 15 kB on a direct stream, which sends no `Content-Length`. For a long string Bun makes a system call for each
 * header, five times the work for 20 kB.
 */
export function bodyOf(text: string): string | ReadableStream<Uint8Array> {
  return text.length < SENT_AT_ONCE ? text : directStream(text);
}

function directStream(text: string): ReadableStream<Uint8Array> {
  const source: Bun.DirectUnderlyingSource<Uint8Array> = {
    type: "direct",
    pull(controller) {
      controller.write(text);
      controller.end();
    },
  };
  return new ReadableStream(source);
}
