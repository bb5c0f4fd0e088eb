/** Converts problem details to JSON-RPC errors. */
import { type Problem, problemStatus } from "../../problem.ts";

const [PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR] = [-32700, -32600, -32603];
/** The code of errors after which the same request may succeed later. JSON-RPC leaves the range of this code to servers. */
const TRY_LATER = -32000;

export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data: { readonly code: Problem["code"]; readonly retryAfter?: number };
}

export function rpcError(problem: Problem): RpcError {
  const { detail: message, code } = problem;
  const seconds = problem.headers?.["Retry-After"];
  return {
    code: rpcCode(problem),
    message,
    data: { code, ...(seconds === undefined ? {} : { retryAfter: Number(seconds) }) },
  };
}

function rpcCode(problem: Problem): number {
  const status = problemStatus(problem);
  if (status === 429 || status === 503) return TRY_LATER;
  if (status >= 500) return INTERNAL_ERROR;
  return problem.code === "not_json" ? PARSE_ERROR : INVALID_REQUEST;
}
