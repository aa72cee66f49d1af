import { findMark, styleMark } from '../theme/marks'

/** The mark of a tenant; null is a tenant that the viewer may not see. A name always stands beside it. */
export function Swatch({ tenant }: { tenant: string | null | undefined }) {
  return <span className="sw" style={styleMark(findMark(tenant))} aria-hidden />
}
