/** What went wrong between here and a registry, as one line with the fix. */
import { z } from "zod";
import { messageOf, oneLine, SconceError } from "../../base/errors.ts";
import { boundedJson, chunksOf } from "../../machine/network/bounded-body.ts";
import { isLoopback } from "../../machine/network/loopback.ts";

const errorsSchema = z.looseObject({
  errors: z.array(z.looseObject({ code: z.string().optional(), message: z.string().optional() })).min(1),
});

const maxErrorBytes = 64 * 1024;

/** Of an answer that is no success: `404 NAME_UNKNOWN: repository name not known to registry`. */
export interface RegistryFault {
  readonly status: number;
  /** The first of the codes that the distribution spec lists, where there is one. */
  readonly code: string | undefined;
  /** Status, code and message as one line. */
  readonly text: string;
}

/** Reads the errors in an answer's body, in the form that the distribution spec gives them. */
export async function readFault(answer: Response): Promise<RegistryFault> {
  const { status } = answer;
  // What breaks off here is an error already, of which the status says enough.
  const content = await boundedJson(chunksOf(answer), maxErrorBytes).catch(() => undefined);
  const [first] = errorsSchema.safeParse(content).data?.errors ?? [];
  const words = [first?.code, first?.message].filter((word) => word).join(": ");
  return { status, code: first?.code, text: oneLine(`${status} ${words}`) };
}

/** A connection that could not be made, or broke off. Its text never has the URL, in which storage puts signatures. */
export function connectionError(url: URL, isPlain: boolean, error: unknown): SconceError {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return new SconceError("registry_unavailable", `${url.host} ${explain(url, isPlain, code, error)}`, { cause: error });
}

function explain(url: URL, isPlain: boolean, code: string, error: unknown): string {
  if (code === "ECONNREFUSED" || code === "ConnectionRefused") {
    return "refuses connections; check the name and the port, and that the registry runs";
  }
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return "is not known to the name server; check the name";
  if (code === "EPROTO") {
    return "does not speak TLS; if it is a registry without it, on a network that you trust, add --plain-http";
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
