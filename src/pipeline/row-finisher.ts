/** Calls `postprocess` for output rows, in several turns of the event loop so that a large batch does not block it. */

import { codedError, type SconceError } from "../base/errors.ts";
import type { Stage } from "../base/labels.ts";
import { LoopWork } from "../base/loop-work.ts";
import type { Rows } from "../engine/engine.ts";
import type { FlowCredits } from "./flow-credits.ts";
import type { ItemList, ItemParts, ListItem } from "./item-list.ts";
import type { ItemPipeline, PartReceiver, Tensors } from "./item-pipeline.ts";

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

interface LaterRow {
  readonly list: ItemList;
  readonly index: number;
  readonly bytes: number;
  readonly beganMs: number;
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
    const { list, index } = item;
    const isVoid = () => list.isOver || parts.error !== undefined || item.parts !== parts;
    if (isVoid()) return;
    const { pipeline } = this.#options;
    const facts = { input: list.input(index), sequence: parts.sequence, caller: list.caller(index) };
    try {
      const text = await list.scope(() => pipeline.part(rows, facts, list.place(index)));
      if (text === undefined || isVoid()) return;
      parts.sequence += 1;
      list.part(index, text);
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
      this.#finish(item, rows);
      this.#turns.took(performance.now() - beganMs);
      return;
    }
    const { credits, onFinished } = this.#options;
    const { list } = item;
    const bytes = bytesOf(rows);
    credits.finishing(list, bytes, 1);
    this.#turns.add(() => {
      credits.finishing(list, bytes, -1);
      if (!list.isOver) this.#finish(item, rows);
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

  #finish({ list, index }: ListItem, rows: Rows): void {
    const { pipeline, observer } = this.#options;
    const beganMs = performance.now();
    try {
      const input = list.input(index);
      const parts = pipeline.hasParts ? partReceiver(list, index) : undefined;
      const { textForm } = list;
      const options = { textForm, place: list.place(index), caller: list.caller(index), parts };
      const output = list.isScoped
        ? list.scope(() => pipeline.finish(rows, input, options))
        : pipeline.finish(rows, input, options);
      if (output instanceof Promise) {
        this.#finishLater({ list, index, bytes: bytesOf(rows), beganMs }, output);
      } else {
        observer?.took("postprocess", performance.now() - beganMs);
        list.span?.took("postprocess", beganMs, index);
        list.succeeded(index, output);
      }
    } catch (error) {
      list.failed(index, codedError(error));
    }
  }

  #finishLater({ list, index, bytes, beganMs }: LaterRow, output: Promise<unknown>): void {
    const { credits, observer, onFinished } = this.#options;
    credits.finishing(list, bytes, 1);
    output
      .then(
        (value) => {
          observer?.took("postprocess", performance.now() - beganMs);
          list.span?.took("postprocess", beganMs, index);
          list.succeeded(index, value);
        },
        (error: unknown) => list.failed(index, codedError(error)),
      )
      .finally(() => {
        credits.finishing(list, bytes, -1);
        onFinished(list);
      });
  }
}

function partReceiver(list: ItemList, index: number): PartReceiver {
  return {
    get isOver() {
      return list.isOver;
    },
    part: (text) => list.part(index, text),
  };
}

/** Bytes of tensors. The author's code may return other values, which the engine refuses later. */
export function bytesOf(tensors: Tensors | undefined): number {
  let bytes = 0;
  for (const name in tensors) bytes += tensors[name]?.data?.byteLength ?? 0;
  return bytes;
}
