/** The outcome of a push for one recipient, as `carillon push outcomes` names it. */
export type Outcome = 'delivered' | 'inbox' | 'superseded' | 'deleted';

/** A device as the specification sees it. */
export interface ModelDevice {
  token: string;
  isConnected: boolean;
  /** It delays its receipts. */
  isHolding: boolean;
  /** Steps since it began to. */
  heldSteps: number;
  topics: Set<string>;
  /** Pending pushes, in their order. */
  pending: ModelPush[];
  /** Pushes that it received and did not acknowledge. */
  unacknowledged: Set<ModelPush>;
  received: Set<ModelPush>;
  /** Pushes that it may have received twice: its connection broke before its receipt. */
  mayRepeat: Set<ModelPush>;
}

export interface ModelPush {
  id: string;
  payload: string;
  collapseKey: string | undefined;
  isDeleted: boolean;
  outcomes: Map<ModelDevice, Outcome>;
}

/** Recipients of a push: devices by their index, or a topic. */
export type Audience = { deviceIndexes: readonly number[] } | { topic: string };

/** The specification as far as it concerns devices, topics and pending pushes; without any time. */
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

  /** The device at an index, modulo their number. */
  deviceAt(deviceIndex: number): ModelDevice {
    const device = this.devices[deviceIndex % this.devices.length];
    if (device === undefined) throw new Error('no device is registered yet');
    return device;
  }

  recipients(audience: Audience): ModelDevice[] {
    if ('topic' in audience) return this.devices.filter(({ topics }) => topics.has(audience.topic));
    return [...new Set(audience.deviceIndexes.map((deviceIndex) => this.deviceAt(deviceIndex)))];
  }

  accept(
    { id, payload, collapseKey }: Pick<ModelPush, 'id' | 'payload' | 'collapseKey'>,
    recipients: readonly ModelDevice[],
  ): ModelPush {
    const push: ModelPush = { id, payload, collapseKey, isDeleted: false, outcomes: new Map() };
    this.pushes.push(push);
    for (const device of recipients) {
      if (collapseKey !== undefined) this.#supersede(device, collapseKey);
      device.pending.push(push);
      push.outcomes.set(device, 'inbox');
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
    for (const [device, status] of push.outcomes) {
      if (status !== 'inbox') continue;
      push.outcomes.set(device, 'deleted');
      device.pending = device.pending.filter((one) => one !== push);
    }
  }

  /** A newer push of the collapse key replaces a pending one (specification 3). */
  #supersede(device: ModelDevice, collapseKey: string): void {
    for (const push of device.pending) {
      if (push.collapseKey === collapseKey) push.outcomes.set(device, 'superseded');
    }
    device.pending = device.pending.filter((push) => push.collapseKey !== collapseKey);
  }

  #arrive(device: ModelDevice, push: ModelPush): void {
    device.received.add(push);
    if (device.isHolding) device.unacknowledged.add(push);
    else this.#acknowledge(device, push);
  }

  #acknowledge(device: ModelDevice, push: ModelPush): void {
    if (push.outcomes.get(device) === 'inbox') push.outcomes.set(device, 'delivered');
    device.pending = device.pending.filter((one) => one !== push);
  }
}

/** Counts a push's recipients by outcome. */
export function countOutcomes({ outcomes }: ModelPush): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const status of outcomes.values()) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
