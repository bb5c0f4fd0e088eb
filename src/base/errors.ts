/** The one error class of sconce: a message for people and a stable code for programs. */
import type { Refusal } from "./labels.ts";

/** What went wrong, as a stable word. The HTTP status of a code is decided in `server/http/problem.ts`, the exit code in `program.ts`. */
export const errorCodes = [
  "usage", // a command was called with something it does not take
  "model_invalid", // a model is declared wrongly, or its files do not fit the declaration
  "model_not_found", // no model of that reference is in the store
  "store_busy", // another process still writes to the store
  "store_unwritable", // the store's disk is full, or may not be written to
  "store_corrupt", // a blob is missing or its bytes do not have its digest
  "registry_unavailable", // a registry can't be reached, or broke off again and again
  "registry_denied", // a registry asks for a login, or does not let this user do it
  "registry_refused", // a registry answered with another error, or is none
  "registry_corrupt", // what came from a registry does not have the digest or size that it was asked for by
  "image_invalid", // an image layout is damaged, or what an image is made of can't be had
  "weights_invalid", // weights cannot be loaded, or take or give other tensors than declared
  "tensor_invalid", // a tensor has another dtype, rank or size than declared
  "run_failed", // the forward pass threw
  "engine_ended", // the engine process ended while it ran this item alone
  "out_of_memory", // the device had too little memory for a batch
  "device_unavailable", // there is no such device
  "target_unreachable", // one item alone takes longer than the latency target
  "session_closed", // a session was used after `dispose()`
  "native_unavailable", // the addon or libtorch could not be loaded
  "cache_unusable", // the folder into which an executable unpacks libtorch cannot be used
  "file_refused", // a URL that must not be fetched (scheme, address, redirect)
  "file_unavailable", // a URL that could not be fetched (time limit, status, connection)
  "file_too_large", // a file, or the image in it, is over a limit
  "file_invalid", // a file is not what the field takes
  "output_invalid", // the model's output does not fit its declared output
  "item_failed", // the model's own code threw for one item
  "canceled", // the prediction was ended before this item
  "timed_out", // the prediction was ended before this item
  "body_invalid", // a request's body is no JSON
  "inputs_invalid", // a body is no list of inputs that fit the schema; `faults` says where
  "prediction_differs", // there is a prediction of another body with the id that a client chose
  "webhook_refused", // a webhook that cannot be told, or must not be
  "queue_full", // there is no room for more items now
  "not_ready", // setting up or draining
  "address_in_use", // the port is taken
  "processes_unavailable", // the server's other processes cannot be started, or have no folder to meet in
  "predictions_unusable", // the database of predictions cannot be opened or read
  "predictions_unwritable", // a prediction cannot be kept now: a full disk, a folder that is read-only
  "queue_unavailable", // the queue of the replicas cannot be reached, or does not take what it is given
] as const;

export type ErrorCode = (typeof errorCodes)[number];

/** One fault of a body. */
export interface Fault {
  /** JSON pointer (RFC 6901) into the body; "" is the body itself. */
  readonly pointer: string;
  readonly detail: string;
}

export interface ErrorDetails {
  readonly cause?: unknown;
  readonly faults?: readonly Fault[];
  readonly retryAfterS?: number;
  readonly refusal?: Refusal;
  readonly at?: string | undefined;
  /** What mends it; it ends the message, too. */
  readonly mend?: string;
}

/** An error whose message may be shown to the person it concerns; `cause` keeps what led to it. */
export class SconceError extends Error {
  override readonly name = "SconceError";
  readonly code: ErrorCode;
  /** The message without its mend. */
  readonly withoutMend: string;
  readonly mend: string | undefined;
  /** Of a body with `inputs_invalid`. */
  readonly faults: readonly Fault[] | undefined;
  /** When it is worth trying again, in seconds; with `queue_full`. */
  readonly retryAfterS: number | undefined;
  /** What a request is refused for, where the code leaves that open. */
  readonly refusal: Refusal | undefined;
  /** The line of the author's code, where another process found it. */
  readonly at: string | undefined;

  constructor(code: ErrorCode, message: string, options: ErrorDetails = {}) {
    super(options.mend === undefined ? message : `${message}; ${options.mend}`, { cause: options.cause });
    this.code = code;
    this.withoutMend = message;
    this.mend = options.mend;
    this.faults = options.faults;
    this.retryAfterS = options.retryAfterS;
    this.refusal = options.refusal;
    this.at = options.at;
  }
}

export function hasCode(error: unknown, code: ErrorCode): boolean {
  return error instanceof SconceError && error.code === code;
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Whether it says that a file is not there. */
export function isNoFile(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}

/** Text of others for a terminal or a log: bounded, and without what could control it. */
export function oneLine(text: string, maxShown = 300): string {
  const plain = text
    .slice(0, 2 * maxShown)
    .replaceAll(/[\p{Cc}\p{Bidi_Control}]+/gu, " ")
    .trim();
  return plain.length > maxShown ? `${plain.slice(0, maxShown)}…` : plain;
}

/** Anything that was thrown for one item as a SconceError; what is not one yet came from the model's own code. */
export function codedError(error: unknown): SconceError {
  return error instanceof SconceError ? error : new SconceError("item_failed", messageOf(error), { cause: error });
}
