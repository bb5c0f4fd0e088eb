/**
 * Shortens the reason why a model cannot be served: clients must not see the server's paths or texts of the model's
 * code.
 */
import { codedError, type ErrorCode } from "../base/errors.ts";

/** Texts that clients get for errors with these codes. The messages of these errors contain paths or addresses. */
const short: Partial<Record<ErrorCode, string>> = {
  store_corrupt: "files of the model are damaged or missing",
  weights_invalid: "the weights cannot be used",
  native_unavailable: "libtorch cannot be loaded",
  cache_unusable: "libtorch cannot be unpacked",
  predictions_unusable: "its predictions cannot be read",
  queue_unavailable: "the queue cannot be reached",
  run_failed: "the weights cannot be run",
  processes_unavailable: "its process cannot be started",
  store_unwritable: "the model store cannot be used",
  store_busy: "the model store cannot be used",
};

export function reasonForClients(error: unknown): string {
  const { code, message, clientMessage } = codedError(error);
  return clientMessage === message ? (short[code] ?? message) : clientMessage;
}
