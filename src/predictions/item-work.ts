/** A prediction under way: its inputs come in turn with those of all others, their outputs make its outcome. */
import type { InputList } from "../inputs/input-list.ts";
import type { ItemFlow } from "../serving/item-flow.ts";
import { ItemList } from "../serving/item-list.ts";
import type { Sender } from "../serving/suspects.ts";
import { OutputList, type OutputListOptions } from "./output-list.ts";

export interface ItemWorkOptions extends OutputListOptions {
  readonly flow: ItemFlow;
  /** Whether its client waits for its end. */
  readonly isWaitedFor: boolean;
  /** Whose inputs they are, where that matters. */
  readonly client?: Sender | undefined;
}

export function workOnItems(inputs: InputList, options: ItemWorkOptions): void {
  const { live, flow, isWaitedFor, client } = options;
  const outputs = new OutputList(options);
  const list = new ItemList(inputs, outputs, { deadlineMs: live.deadlineMs, isWaitedFor, client });
  live.items = list;
  live.begin({
    failure: (message) => outputs.failure(message),
    get outputs() {
      return outputs.outputs;
    },
    told: () => flow.notWaitedFor(list),
    release: () => {
      outputs.release();
      flow.end(list);
    },
  });
  flow.run(list);
}
