/** Calls `postprocess` for output rows, in several turns of the event loop so that a large batch does not block it. */

import { codedError, type SconceError } from "../base/errors.ts";
import type { Stage } from "../base/labels.ts";
import { LoopWork } from "../base/loop-work.ts";
import type { Rows } from "../engine/rows.ts";
import type { FlowCredits } from "./flow-credits.ts";
import type { ItemList, ItemParts, ListItem } from "./item-list.ts";
import type { ItemPipeline, Tensors } from "./item-pipeline.ts";

/** Gets the time of each stage of an input. */
export interface StageObserver {
  took(stage: Stage, ms: number): void;
}

interface RowFinisherOptions {
  readonly pipeline: ItemPipeline;
  /** Counts the rows that `postprocess` has not finished. With many such rows, no input begins. */
  readonly credits: FlowCredits;
  readonly observer: StageObserver | undefined;
  /** Called when an input gets its result after `finish` or `fail` returned, or its prediction has ended. */
  readonly onFinished: (list: ItemList) => void;
}

export class RowFinisher {
  readonly #options: RowFinisherOptions;
  readonly #turns: LoopWork;

  constructor(options: RowFinisherOptions) {
    this.#options = options;
    this.#turns = new LoopWork(() => options.pipeline.encoder.isBehind);
  }

  /** Makes a part of an output from rows that `predict` yielded. */
  part(item: ListItem, rows: Rows): void {
    const { credits } = this.#options;
    const { list } = item;
    item.parts ??= { sequence: 0, last: Promise.resolve(), error: undefined };
    const { parts } = item;
    const bytes = bytesOf(rows);
    credits.finishing(list, bytes, 1);
    parts.last = parts.last.then(async () => {
      await this.#part(item, parts, rows);
      credits.finishing(list, bytes, -1);
    });
  }

  async #part(item: ListItem, parts: ItemParts, rows: Rows): Promise<void> {
    const { list } = item;
    const isVoid = () => list.isOver || parts.error !== undefined || item.parts !== parts;
    if (isVoid()) return;
    try {
      const text = await list.scope(() => this.#options.pipeline.part(rows, item, parts.sequence));
      if (text === undefined || isVoid()) return;
      parts.sequence += 1;
      item.part(text);
    } catch (error) {
      parts.error = codedError(error);
    }
  }

  /** Makes the output of an item. @param beganMs when the rows arrived, in `performance.now()` milliseconds */
  finish(item: ListItem, rows: Rows, beganMs: number): void {
    const { parts } = item;
    if (parts !== undefined) {
      this.#finishAfter(parts, item, rows);
      return;
    }
    if (this.#turns.isOpen) {
      this.#finish(item, rows, beganMs);
      this.#turns.took(performance.now() - beganMs);
    } else this.#finishInTurn(item, rows);
  }

  #finishInTurn(item: ListItem, rows: Rows): void {
    const { credits, onFinished } = this.#options;
    const { list } = item;
    const bytes = bytesOf(rows);
    credits.finishing(list, bytes, 1);
    this.#turns.add(() => {
      credits.finishing(list, bytes, -1);
      if (!list.isOver) this.#finish(item, rows, performance.now());
      onFinished(list);
    });
  }

  /** Makes the output after all parts whose rows came earlier. Fails the item if a part failed. */
  #finishAfter(parts: ItemParts, item: ListItem, rows: Rows): void {
    const { credits, onFinished } = this.#options;
    const { list, index } = item;
    const bytes = bytesOf(rows);
    credits.finishing(list, bytes, 1);
    void parts.last.then(() => {
      credits.finishing(list, bytes, -1);
      item.parts = undefined;
      if (parts.error !== undefined) list.failed(index, parts.error);
      else if (!list.isOver) this.finish(item, rows, performance.now());
      onFinished(list);
    });
  }

  /** Fails the item after all parts whose rows came earlier. */
  fail(item: ListItem, error: SconceError): void {
    const { list, index, parts } = item;
    if (parts === undefined) {
      list.failed(index, error);
      return;
    }
    void parts.last.then(() => {
      list.failed(index, parts.error ?? error);
      this.#options.onFinished(list);
    });
  }

  #finish(item: ListItem, rows: Rows, beganMs: number): void {
    const { pipeline } = this.#options;
    const { list, index } = item;
    item.beganMs = beganMs;
    try {
      const output = list.isScoped ? this.#madeInScope(item, rows) : pipeline.finish(rows, item);
      if (output instanceof Promise) this.#finishLater(item, bytesOf(rows), output);
      else this.#succeeded(item, output);
    } catch (error) {
      list.failed(index, codedError(error));
    }
  }

  #madeInScope(item: ListItem, rows: Rows): unknown {
    return item.list.scope(() => this.#options.pipeline.finish(rows, item));
  }

  #finishLater(item: ListItem, bytes: number, output: Promise<unknown>): void {
    const { credits, onFinished } = this.#options;
    const { list, index } = item;
    credits.finishing(list, bytes, 1);
    output
      .then(
        (value) => this.#succeeded(item, value),
        (error: unknown) => list.failed(index, codedError(error)),
      )
      .finally(() => {
        credits.finishing(list, bytes, -1);
        onFinished(list);
      });
  }

  #succeeded({ list, index, beganMs }: ListItem, output: unknown): void {
    const nowMs = performance.now();
    this.#options.observer?.took("postprocess", nowMs - beganMs);
    list.span?.took("postprocess", beganMs, index);
    list.succeeded(index, output, nowMs);
  }
}

/** Bytes of tensors. The author's code may return other values, which the engine refuses later. */
export function bytesOf(tensors: Tensors | undefined): number {
  let bytes = 0;
  for (const name in tensors) bytes += tensors[name]?.data?.byteLength ?? 0;
  return bytes;
}
