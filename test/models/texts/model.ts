/** A text, or a pair of texts, becomes a vector, a score, and a score for each label. For tests of OpenAI's API. */
import { defineModel, float32, InputError, int64, tensor, z } from "sconce";

export default defineModel({
  name: "texts",
  input: z.object({
    text: z.string().max(200).default(""),
    /** The second text of a pair. The score grows with the number of its characters that `text` has, too. */
    document: z.string().default(""),
  }),
  output: z.object({
    words: z.int(),
    vector: z.array(z.number()).length(3),
    score: z.number(),
    moods: z.object({ calm: z.number(), loud: z.number() }),
  }),
  tensors: { inputs: { x: float32(), steps: int64() }, outputs: { y: float32(), together: int64() } },
  weights: "texts.pt",
  batchSize: 64,
  example: { text: "two words" },
  openai: {
    embeddings: { input: "text", output: "vector", tokens: "words" },
    rerank: { query: "text", document: "document", score: "score" },
    classify: { input: "text", scores: "moods" },
  },
  async preprocess({ text, document }) {
    if (text === "unreadable") throw new Error("no such file: /srv/secret/words.txt");
    if (text === "unwanted") throw new InputError("this text is not wanted", { field: "text" });
    // If the text is a URL, its server decides how long `preprocess` takes.
    if (text.startsWith("http://")) await (await fetch(text)).arrayBuffer();
    const x = text.length + [...document].filter((c) => text.includes(c)).length;
    return { x: tensor(Float32Array.of(x / 3), []), steps: tensor(BigInt64Array.of(0n), []) };
  },
  postprocess({ y }, { input: { text } }) {
    const [value = 0] = y.data;
    const vector = Array.from(Float32Array.of(value, value / 3, -1 / value));
    const loud = text === text.toUpperCase() ? 0.75 : 0.25;
    return { words: text.split(" ").length, vector, score: value, moods: { calm: 1 - loud, loud } };
  },
});
