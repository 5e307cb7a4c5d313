/** How a push stands with one of its recipients, in the words of `carillon push outcomes`. */
export type Fate = 'delivered' | 'inbox' | 'superseded' | 'deleted';

/** A device as the specification sees it. */
export interface ModelDevice {
  token: string;
  isConnected: boolean;
  /** It keeps its receipts back. */
  isHolding: boolean;
  /** Steps since it began to. */
  heldSteps: number;
  topics: Set<string>;
  /** Pushes it is owed, in their order. */
  pending: ModelPush[];
  /** What it has of those that it did not acknowledge. */
  unacknowledged: Set<ModelPush>;
  received: Set<ModelPush>;
  /** What it may have got twice: its link broke before its receipt. */
  mayRepeat: Set<ModelPush>;
}

export interface ModelPush {
  id: string;
  payload: string;
  collapseKey: string | undefined;
  isDeleted: boolean;
  fates: Map<ModelDevice, Fate>;
}

/** Whom a push is for: devices by their place, or a topic. */
export type Audience = { places: readonly number[] } | { topic: string };

/** The specification as far as it concerns devices, topics and what they are owed; it knows nothing of time. */
export class Model {
  readonly devices: ModelDevice[] = [];
  readonly pushes: ModelPush[] = [];

  register(token: string): void {
    this.devices.push({
      token,
      isConnected: false,
      isHolding: false,
      heldSteps: 0,
      topics: new Set(),
      pending: [],
      unacknowledged: new Set(),
      received: new Set(),
      mayRepeat: new Set(),
    });
  }

  /** The device at a place, counted round. */
  at(place: number): ModelDevice {
    const device = this.devices[place % this.devices.length];
    if (device === undefined) throw new Error('no device is registered yet');
    return device;
  }

  recipients(audience: Audience): ModelDevice[] {
    if ('topic' in audience) return this.devices.filter(({ topics }) => topics.has(audience.topic));
    return [...new Set(audience.places.map((place) => this.at(place)))];
  }

  accept(
    { id, payload, collapseKey }: Pick<ModelPush, 'id' | 'payload' | 'collapseKey'>,
    recipients: readonly ModelDevice[],
  ): ModelPush {
    const push: ModelPush = { id, payload, collapseKey, isDeleted: false, fates: new Map() };
    this.pushes.push(push);
    for (const device of recipients) {
      if (collapseKey !== undefined) this.#supersede(device, collapseKey);
      device.pending.push(push);
      push.fates.set(device, 'inbox');
      if (device.isConnected) this.#arrive(device, push);
    }
    return push;
  }

  connect(device: ModelDevice): void {
    device.isConnected = true;
    for (const push of [...device.pending]) this.#arrive(device, push);
  }

  disconnect(device: ModelDevice): void {
    device.isConnected = false;
    for (const push of device.unacknowledged) device.mayRepeat.add(push);
    device.unacknowledged.clear();
  }

  hold(device: ModelDevice): void {
    device.isHolding = true;
    device.heldSteps = 0;
  }

  release(device: ModelDevice): void {
    device.isHolding = false;
    for (const push of device.unacknowledged) this.#acknowledge(device, push);
    device.unacknowledged.clear();
  }

  delete(push: ModelPush): void {
    push.isDeleted = true;
    for (const [device, fate] of push.fates) {
      if (fate !== 'inbox') continue;
      push.fates.set(device, 'deleted');
      device.pending = device.pending.filter((one) => one !== push);
    }
  }

  /** A newer push of the collapse key takes the place of a pending one (specification 3). */
  #supersede(device: ModelDevice, collapseKey: string): void {
    for (const push of device.pending) {
      if (push.collapseKey === collapseKey) push.fates.set(device, 'superseded');
    }
    device.pending = device.pending.filter((push) => push.collapseKey !== collapseKey);
  }

  #arrive(device: ModelDevice, push: ModelPush): void {
    device.received.add(push);
    if (device.isHolding) device.unacknowledged.add(push);
    else this.#acknowledge(device, push);
  }

  #acknowledge(device: ModelDevice, push: ModelPush): void {
    if (push.fates.get(device) === 'inbox') push.fates.set(device, 'delivered');
    device.pending = device.pending.filter((one) => one !== push);
  }
}

/** Counts a push's recipients by how they stand. */
export function countFates({ fates }: ModelPush): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const fate of fates.values()) counts[fate] = (counts[fate] ?? 0) + 1;
  return counts;
}
