/**
 * `bun transfer-child.ts FROM TO HOST/repo:tag` pushes a model over TLS and pulls it into another store. It is a
 * separate process, because a process reads its trusted authorities only when it starts.
 */
import { ModelStore } from "../../src/package/store/store.ts";
import { pullFrom, pushTo } from "./transfer.ts";

const [from = "", to = "", remote = ""] = process.argv.slice(2);
await pushTo(new ModelStore(from), "digits:v1", remote, { isPlain: false });
const { digest } = await pullFrom(new ModelStore(to), remote, { isPlain: false });
console.log(digest);
