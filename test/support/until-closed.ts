import type { Socket } from 'node:net';

/**
 * Waits until a connection is gone. A byte that crosses the peer's close turns it into a reset,
 * which `once` of node:events would take for a failure.
 */
export async function untilClosed(socket: Socket): Promise<void> {
  if (socket.closed) return;
  await new Promise<void>((resolve) => {
    socket.once('close', () => resolve());
  });
}
