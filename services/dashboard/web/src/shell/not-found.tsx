import { Text } from '@mantine/core';
import { Gate } from '../parts/gate.tsx';
import { TextLink } from '../parts/links.tsx';

/** Shows that an address is none of the console's. */
export function NotFound() {
  return (
    <Gate title="There is no page at this address">
      <Text fz="sm">
        The address may be incomplete. <TextLink to="/">Go to the overview</TextLink>
      </Text>
    </Gate>
  );
}
