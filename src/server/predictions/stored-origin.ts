/** The request that a prediction came by as it lies in a store: JSON, or nothing where no release that knew it wrote it. */
import { z } from "zod";
import type { Origin } from "./predictions.ts";

const schema = z.object({ requestId: z.string(), traceId: z.string().optional(), spanId: z.string().optional() });

export function originText(origin: Origin | undefined): string {
  if (origin === undefined) return "";
  const { requestId, traceId, spanId } = origin;
  return JSON.stringify({ requestId, traceId, spanId });
}

export function originOf(text: string): Origin | undefined {
  if (text === "") return undefined;
  const { requestId, traceId, spanId } = schema.parse(JSON.parse(text));
  return { requestId, traceId, spanId };
}
