import { Empty } from '../parts/empty.tsx';
import { TextLink } from '../parts/links.tsx';

/** Shows that an address is none of the console's. */
export function NotFound() {
  return (
    <Empty title="There is no page at this address">
      The address may be incomplete. <TextLink to="/">Go to the overview</TextLink>, or search by
      Ctrl K.
    </Empty>
  );
}
