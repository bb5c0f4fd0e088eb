/** Reads one handwritten digit, drawn at any size, dark on light or light on dark. */
import { argmax, defineModel, float32, image, tensor, z } from "sconce";
import { canonicalize, side } from "./canonicalize.ts";
import { greyPicture } from "./grey-picture.ts";
import { heatMap, occlusions } from "./heat-map.ts";

export default defineModel({
  name: "digits",
  description: "Reads one handwritten digit.",
  input: z.object({ image: image() }),
  output: z.object({ digit: z.int(), scores: z.array(z.number()).length(10) }),
  tensors: { inputs: { pixels: float32(side, side) }, outputs: { scores: float32(10) } },
  weights: "digits.pt2",
  batchSize: 64,
  example: { image: "samples/3.png" },
  async preprocess({ image }) {
    return { pixels: tensor(canonicalize(await greyPicture(image)), [side, side]) };
  },
  postprocess({ scores }) {
    return { digit: argmax(scores), scores: [...scores.data] };
  },
  demo: {
    output: z.object({ digit: z.int(), heatMap: image() }),
    async predict(inputs, { predict, log, signal }) {
      const outputs = await predict(inputs);
      const demoOutputs = [];
      for (const [i, { image }] of inputs.entries()) {
        const output = outputs[i] ?? { digit: 0, scores: [] };
        const score = output.scores[output.digit] ?? 0;
        log(`picture ${i}: a ${output.digit}, score ${score.toFixed(3)}; covering it part by part`);
        const covered = await Promise.all(occlusions(await greyPicture(image)));
        const without = await predict(covered.map((picture) => ({ image: picture })));
        const falls = without.map(({ scores }) => score - (scores[output.digit] ?? 0));
        const others = without.filter(({ digit }) => digit !== output.digit).length;
        log(
          `picture ${i}: the score falls by up to ${Math.max(...falls).toFixed(3)}, ${others} parts change the answer`,
        );
        demoOutputs.push({ digit: output.digit, heatMap: await heatMap(image, falls) });
        signal.throwIfAborted();
      }
      return { outputs, demoOutputs };
    },
  },
});
