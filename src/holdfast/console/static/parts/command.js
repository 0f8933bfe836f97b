/**
 * Commands of `holdfast` for this broker, to be pasted into a shell of its machine.
 *
 *     holdfast("clients kick", [], id)                     // holdfast clients kick --data /var/lib/holdfast press-7
 *     holdfast("events", [`--reason=${quote(reason)}`])
 */
import { quote } from "./api.js";
import { node } from "./live.js";

/**
 * @param {string} words the command itself
 * @param {(string | false | null | undefined)[]} [options] what is empty is left out
 * @param {string} [session] the session that it is about: a client id, behind its mount point and a NUL if it has one
 */
export function holdfast(words, options = [], session) {
  const folder = node.value?.data_folder;
  const at = session?.indexOf("\0") ?? -1;
  const client = session?.slice(at + 1);
  return [
    "holdfast", words, ...options.filter(Boolean), at > 0 && `--mount-point=${quote(session?.slice(0, at) ?? "")}`, folder && `--data ${quote(folder)}`,
    // A name that begins with a hyphen is no option.
    client !== undefined && (client.startsWith("-") ? `-- ${quote(client)}` : quote(client)),
  ].filter(Boolean).join(" ");
}
