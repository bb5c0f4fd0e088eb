/** Metrics as Prometheus has them. */
import { z } from "zod";

export type Labels = Readonly<Record<string, string>>;

/** A metric with its series. Fronts send their gauges to each other in this form, as JSON. */
export const familySchema = z.object({
  name: z.string(),
  help: z.string(),
  type: z.enum(["counter", "gauge", "histogram"]),
  /** How equal series of several fronts are merged. */
  aggregator: z.enum(["sum", "max", "first"]),
  values: z
    .array(z.object({ labels: z.record(z.string(), z.string()), value: z.number(), metricName: z.string().optional() }))
    .readonly(),
});
export type Family = z.infer<typeof familySchema>;
