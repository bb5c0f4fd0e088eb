/** A collector for OpenTelemetry on loopback, which receives OTLP as JSON. */
import { z } from "../../src/author/z.ts";
import { until } from "./running.ts";

const valueSchema = z.union([
  z.object({ stringValue: z.string() }).transform(({ stringValue }) => stringValue),
  z.object({ intValue: z.union([z.number(), z.string()]) }).transform(({ intValue }) => Number(intValue)),
  z.object({ doubleValue: z.number() }).transform(({ doubleValue }) => doubleValue),
  z.unknown(),
]);
const attributesSchema = z
  .array(z.object({ key: z.string(), value: valueSchema }))
  .default([])
  .transform((all) => Object.fromEntries(all.map(({ key, value }) => [key, value])));
const nanoseconds = z.string().transform((text) => Number(text));

const spanSchema = z.object({
  name: z.string(),
  kind: z.number(),
  traceId: z.string(),
  spanId: z.string(),
  parentSpanId: z.string().optional(),
  traceState: z.string().optional(),
  startTimeUnixNano: nanoseconds,
  endTimeUnixNano: nanoseconds,
  attributes: attributesSchema,
  links: z.array(z.object({ traceId: z.string(), spanId: z.string() })).default([]),
  status: z.object({ code: z.number().default(0) }).optional(),
});
export type Span = z.infer<typeof spanSchema>;

const resourceSchema = z.object({ attributes: attributesSchema });
const tracesSchema = z.object({
  resourceSpans: z.array(
    z.object({ resource: resourceSchema, scopeSpans: z.array(z.object({ spans: z.array(spanSchema) })) }),
  ),
});
export interface Collector extends AsyncDisposable {
  readonly url: string;
  readonly spans: readonly Span[];
  readonly resource: Readonly<Record<string, unknown>>;
  /** HTTP headers of the latest export. */
  readonly headers: Headers;
  /** Resolves with all spans so far once the condition holds for them. */
  until(isDone: (spans: readonly Span[]) => boolean): Promise<readonly Span[]>;
}

export function collector(): Collector {
  const spans: Span[] = [];
  let resource: Readonly<Record<string, unknown>> = {};
  let headers = new Headers();
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    routes: {
      "/v1/traces": async (request) => {
        const { resourceSpans } = tracesSchema.parse(await request.json());
        headers = request.headers;
        for (const { resource: from, scopeSpans } of resourceSpans) {
          resource = from.attributes;
          for (const scope of scopeSpans) spans.push(...scope.spans);
        }
        return Response.json({});
      },
    },
  });
  return {
    url: server.url.origin,
    spans,
    get resource() {
      return resource;
    },
    get headers() {
      return headers;
    },
    async until(isDone) {
      await until(() => isDone(spans));
      return spans;
    },
    async [Symbol.asyncDispose]() {
      await server.stop(true);
    },
  };
}
