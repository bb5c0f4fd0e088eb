/** Types of imports that give a file's text, which a compiled executable contains. */
declare module "*.py" {
  const text: string;
  export default text;
}
