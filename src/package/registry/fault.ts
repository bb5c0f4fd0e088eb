/** Makes one-line error messages for refused requests and failed connections. */
import { z } from "zod";
import { codeOf, messageOf, oneLine, SconceError } from "../../base/errors.ts";
import { boundedJson, chunksOf } from "../../machine/network/bounded-body.ts";
import { isLoopback } from "../../machine/network/host-name.ts";

const errorsSchema = z.looseObject({
  errors: z.array(z.looseObject({ code: z.string().optional(), message: z.string().optional() })).min(1),
});

const maxErrorBytes = 64 * 1024;

export interface RegistryFault {
  readonly status: number;
  /** The first error code in the body, such as `NAME_UNKNOWN`; undefined if the body has none. */
  readonly code: string | undefined;
  /** Status, code and message, such as `404 NAME_UNKNOWN: repository name not known to registry`. */
  readonly text: string;
}

/** Reads the first error in an answer's JSON body (OCI distribution spec, error codes). */
export async function readFault(answer: Response): Promise<RegistryFault> {
  const { status } = answer;
  // If the body is not readable JSON, the error has only the status.
  const content = await boundedJson(chunksOf(answer), maxErrorBytes).catch(() => undefined);
  const [first] = errorsSchema.safeParse(content).data?.errors ?? [];
  const words = [first?.code, first?.message].filter((word) => word).join(": ");
  return { status, code: first?.code, text: oneLine(`${status} ${words}`) };
}

/** The error for a failed connection. The message names the host alone, because storage URLs contain signatures. */
export function connectionError(url: URL, isPlain: boolean, error: unknown): SconceError {
  return new SconceError("registry_unavailable", `${url.host} ${explain(url, isPlain, error)}`, { cause: error });
}

function explain(url: URL, isPlain: boolean, error: unknown): string {
  const code = codeOf(error);
  if (code === "ECONNREFUSED" || code === "ConnectionRefused") {
    return "refuses connections; check the name and the port, and that the registry runs";
  }
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return "is not known to the name server; check the name";
  if (code === "EPROTO") {
    return "does not speak TLS; if the registry has no TLS and you trust the network, pull or push with --plain-http";
  }
  if (/CERT|SELF_SIGNED|UNABLE_TO|TLS|HOSTNAME/.test(code)) {
    return `has a certificate that is not trusted (${code}); name the authority's file in NODE_EXTRA_CA_CERTS`;
  }
  if (code === "ECONNRESET") {
    const hint =
      isPlain && !isLoopback(url.host)
        ? "; if it speaks TLS, leave out --plain-http"
        : "; check the network, and the port";
    return `closed the connection${hint}`;
  }
  if (error instanceof DOMException && error.name === "TimeoutError") return "has sent nothing for too long";
  return oneLine(`could not be reached: ${code || messageOf(error)}`);
}
