/** The route `POST /classify`, which vLLM defines. */
import type { Context } from "hono";
import type { OpenAiFields } from "../../../author/openai.ts";
import { type AskedOptions, predict } from "./asked.ts";
import { failureResponse } from "./errors.ts";
import type { ClassifyRequest } from "./requests.ts";

type Fields = NonNullable<OpenAiFields["classify"]>;

export interface ClassifyOptions extends AskedOptions<ClassifyRequest> {
  readonly fields: Fields;
}

export async function classify(c: Context, options: ClassifyOptions): Promise<Response> {
  const { fields, model } = options;
  const { ended } = await predict(c, options, ({ input }) => ({
    inputs: [input].flat().map((text) => ({ [fields.input]: text })),
    param: "input",
  }));
  if (!ended.ok) return failureResponse(c, ended.message);
  const data = ended.outputs.map((output, index) => {
    const scores = scoresIn(JSON.parse(output), fields);
    const [best] = scores.toSorted((a, b) => b.score - a.score);
    const [labels, probs] = [scores.map(({ label }) => label), scores.map(({ score }) => score)];
    return { index, label: best?.label, probs, labels, num_classes: scores.length };
  });
  return c.json({
    id: ended.id,
    object: "list",
    created: Math.floor(Date.now() / 1000),
    model: model.name,
    data,
    usage: { prompt_tokens: 0, total_tokens: 0 },
  });
}

interface Scored {
  readonly label: string;
  readonly score: number;
}

/** The labels and scores of an output, in its order. The types need no check: at its start, the server has checked the model's output schema. */
function scoresIn(output: Record<string, unknown>, { scores: field, labels, label }: Fields): Scored[] {
  const scores: unknown = output[field];
  if (label !== undefined) return [{ label: String(output[label]), score: Number(scores) }];
  if (labels !== undefined && Array.isArray(scores)) {
    return labels.map((label, i) => ({ label, score: Number(scores[i]) }));
  }
  if (!Array.isArray(scores)) {
    return Object.entries(scores ?? {}).map(([label, score]) => ({ label, score: Number(score) }));
  }
  return scores.map((each: object) => {
    const values: unknown[] = Object.values(each);
    const isText = (value: unknown) => typeof value === "string";
    return { label: String(values.find(isText)), score: Number(values.find((value) => !isText(value))) };
  });
}
