/** Types of imports that give a file's path. In a compiled executable, the path points into the executable. */
declare module "#swagger-ui/swagger-ui-bundle.js" {
  const path: string;
  export default path;
}
declare module "#swagger-ui/swagger-ui.css" {
  const path: string;
  export default path;
}
declare module "#page/page.js" {
  const path: string;
  export default path;
}
declare module "#page/page.css" {
  const path: string;
  export default path;
}
