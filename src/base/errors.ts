/** The error class of sconce: a message for people and a stable code for programs. */
import type { Refusal } from "./labels.ts";

/** Stable codes: `http/problem.ts` maps them to HTTP statuses, `cli/command-line/program.ts` to exit codes. */
export const errorCodes = [
  "usage", // invalid arguments of a command
  "model_invalid", // a declaration is invalid, or the files of the model do not match it
  "model_not_found", // the store has no such model
  "store_busy", // another process writes to the store of models
  "store_unwritable", // the disk of the store of models is full or read-only
  "store_corrupt", // a blob is missing, or its content does not match its digest
  "registry_unavailable", // a registry cannot be reached, or several tries failed
  "registry_denied", // a registry requires a login or a permission, or the stored credentials are invalid
  "registry_refused", // a registry answered with another error, or the host is no registry
  "registry_corrupt", // content from a registry has another digest or size than requested
  "image_invalid", // an OCI image layout is damaged, or a file for an image is missing, unsuitable or changed meanwhile
  "weights_invalid", // weights cannot be loaded, or their tensors differ from the declaration
  "tensor_invalid", // a tensor has another dtype, rank or size than declared, or its data do not fit its shape
  "run_failed", // the forward pass threw
  "engine_ended", // the engine process ended while it ran a batch of only this item
  "out_of_memory", // the device had too little memory for the weights or a batch
  "device_unavailable", // the device does not exist
  "target_unreachable", // a batch of one item takes longer than the latency target
  "session_closed", // the session or the engine was closed before the item ran
  "native_unavailable", // the addon or libtorch could not be loaded
  "cache_unusable", // the folder into which an executable unpacks libtorch cannot be used
  "file_refused", // the server must not fetch this URL (scheme, address, redirect)
  "file_unavailable", // fetching a URL failed (time limit, status, connection)
  "file_too_large", // a file has too many bytes, pixels or seconds
  "file_invalid", // a URL is malformed, or the field does not accept the file's type or content
  "output_invalid", // the model's output does not match its declaration
  "input_refused", // the author's code refused an input with an InputError
  "item_failed", // the author's code threw for one item
  "canceled", // the prediction was canceled before this item completed, or a command was interrupted
  "timed_out", // the prediction timed out before this item completed
  "body_invalid", // a request's body is not JSON in UTF-8, or not a valid form or JSON-RPC message
  "inputs_invalid", // inputs do not match the schema; `faults` lists the wrong values
  "prediction_differs", // the client's id belongs to a prediction with another body
  "webhook_refused", // the webhook URL is invalid or not allowed
  "queue_full", // the queue accepts no more items now, or the server's memory is full
  "not_ready", // the server or its engine process is starting, or the server is draining
  "address_in_use", // another process uses the port
  "processes_unavailable", // child processes cannot be started, or their socket folder cannot be created
  "predictions_unusable", // the database of predictions cannot be opened or read
  "predictions_unwritable", // the database of predictions cannot be written: the disk is full or read-only
  "queue_unavailable", // the replicas' queue cannot be reached, or refuses a write
] as const;

export type ErrorCode = (typeof errorCodes)[number];

export interface Fault {
  /** JSON pointer (RFC 6901) into the body; "" is the body itself. */
  readonly pointer: string;
  readonly detail: string;
}

/** A field of an input: its name, or the path to it as in `["boxes", 0, "width"]`. */
export type InputField = string | readonly (string | number)[];

export interface ErrorDetails {
  readonly cause?: unknown;
  readonly faults?: readonly Fault[];
  readonly retryAfterS?: number;
  readonly refusal?: Refusal;
  readonly clientMessage?: string | undefined;
  readonly field?: InputField | undefined;
  /** How to fix the problem; appended to the message. */
  readonly fix?: string;
}

/** sconce's error. Operators and authors see `message`; clients see `clientMessage`. */
export class SconceError extends Error {
  override readonly name = "SconceError";
  readonly code: ErrorCode;
  /** The message without the fix. */
  readonly problem: string;
  readonly fix: string | undefined;
  /** The wrong values in a request's body; set for `inputs_invalid`. */
  readonly faults: readonly Fault[] | undefined;
  /** Seconds after which a client may retry; mostly set for `queue_full`, and while a model loads. */
  readonly retryAfterS: number | undefined;
  /** Label of the refused request in metrics, if the code alone does not decide it. */
  readonly refusal: Refusal | undefined;
  /** The message for clients. It omits the details of an error in the author's code, such as paths. */
  readonly clientMessage: string;
  /** The wrong field of the input; may be set for `input_refused`. */
  readonly field: InputField | undefined;

  constructor(code: ErrorCode, message: string, options: ErrorDetails = {}) {
    super(options.fix === undefined ? message : `${message}; ${options.fix}`, { cause: options.cause });
    this.code = code;
    this.problem = message;
    this.fix = options.fix;
    this.faults = options.faults;
    this.retryAfterS = options.retryAfterS;
    this.refusal = options.refusal;
    this.clientMessage = options.clientMessage ?? this.message;
    this.field = options.field;
  }
}

export function hasCode(error: unknown, code: ErrorCode): boolean {
  return error instanceof SconceError && error.code === code;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The `code` of an error; empty if there is none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}

/** Whether the error is ENOENT: a file does not exist. */
export function isNoFile(error: unknown): boolean {
  return codeOf(error) === "ENOENT";
}

/** Makes untrusted text safe for one line of a terminal or log: removes control characters and truncates. */
export function oneLine(text: string, maxShown = 300): string {
  const plain = text
    .slice(0, 2 * maxShown)
    .replaceAll(/[\p{Cc}\p{Bidi_Control}]+/gu, " ")
    .trim();
  return plain.length > maxShown ? `${plain.slice(0, maxShown)}…` : plain;
}

/** The text that clients get for an error of the author's code, except an InputError. */
export const MODEL_FAILED = "the model failed";

/**
 * Returns a SconceError unchanged. Wraps any other thrown value, which comes from the author's code.
 * @param code code of a wrapped error
 */
export function codedError(error: unknown, code: ErrorCode = "item_failed"): SconceError {
  if (error instanceof SconceError) return error;
  return new SconceError(code, messageOf(error), { cause: error, clientMessage: MODEL_FAILED });
}
