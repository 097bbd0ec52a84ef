// All talk with the server.
async function checked(answer) {
  if (answer.ok) return answer;
  let told = `the server answered ${answer.status}`;
  try { told = (await answer.json()).error ?? told; } catch { /* no JSON: the number has to do */ }
  throw new Error(told);
}

export const get = async (path) => (await checked(await fetch(path))).json();
export const getBytes = async (path) => (await checked(await fetch(path))).arrayBuffer();

export async function post(step) {
  const answer = await fetch("/api/step", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(step),
  });
  return (await checked(answer)).json();
}

export const growNow = async () => (await checked(await fetch("/api/grow", { method: "POST" }))).json();

export async function download(name) {
  const answer = await checked(await fetch(`/api/files/${name}`));
  const address = URL.createObjectURL(await answer.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

export function listen(changed, lost) {
  const events = new EventSource("/api/events");
  events.onmessage = (event) => changed(Number(event.data));
  events.onerror = () => lost();
}
