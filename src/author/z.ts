/** zod for model files: `z.object` refuses unknown fields at every depth; `z.looseObject` allows them. */
export * from "zod";
export { strictObject as object } from "zod";
