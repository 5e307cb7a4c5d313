import { destination } from 'pino';

/** A logger's destination: standard output. */
type LogDestination = ReturnType<typeof destination>;

/** Characters after which a text is complete, as much as the stream writes at once. */
const TEXT_CHARS = 16 * 1_024;

/**
 * Opens standard output for a logger. The lines of one turn of the event loop are handed to pino's stream together: it
 * measures all text that waits again with each further line, which costs a busy process more than the lines. Like that
 * stream, it writes in the background, and the rest at once when the process exits and after a fatal line.
 */
export function openLogDestination(): LogDestination {
  const stream = destination({ sync: false });
  const write = stream.write.bind(stream);
  const flushSync = stream.flushSync.bind(stream);
  let texts: string[] = [];
  let lines = '';

  function handOver(): void {
    const complete = texts;
    const rest = lines;
    texts = [];
    lines = '';
    for (const text of complete) write(text);
    if (rest !== '') write(rest);
  }

  // The stream's own functions are replaced, because its hook at the exit of the process calls them.
  stream.write = (line) => {
    if (lines === '' && texts.length === 0) setImmediate(handOver);
    lines += line;
    if (lines.length >= TEXT_CHARS) {
      texts.push(lines);
      lines = '';
    }
    return true;
  };
  stream.flushSync = () => {
    // The stream writes a first text in the background, and only the texts that wait behind it at once.
    write('');
    handOver();
    flushSync();
  };
  return stream;
}
