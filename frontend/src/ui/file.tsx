/** The name of a file, which breaks before its suffix where it must. */
export function FileTitle(props: { name: string }) {
  const { name } = props;
  const dot = name.lastIndexOf(".");
  if (dot <= 0) return <>{name}</>;
  return (
    <>
      {name.slice(0, dot)}
      <wbr />
      {name.slice(dot)}
    </>
  );
}
