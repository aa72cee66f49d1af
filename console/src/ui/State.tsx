// States as icon and word; the colour only repeats them.
import {
  IconAlertTriangle,
  IconArrowBarToDown,
  IconBan,
  IconCheck,
  IconCircleCheck,
  IconCircleX,
  IconClockHour4,
  IconInfoCircle,
  IconLock,
  IconPlayerPauseFilled,
  IconPlayerPlayFilled,
  IconPlayerStopFilled,
} from '@tabler/icons-react'
import { useTranslation } from 'react-i18next'

type Tone = 'run' | 'wait' | 'note' | 'fault' | 'ok'

const LOOKS: Record<string, { icon: typeof IconCheck; tone: Tone }> = {
  pending: { icon: IconClockHour4, tone: 'wait' },
  starting: { icon: IconPlayerPlayFilled, tone: 'wait' },
  running: { icon: IconPlayerPlayFilled, tone: 'run' },
  suspended: { icon: IconPlayerPauseFilled, tone: 'wait' },
  done: { icon: IconCheck, tone: 'note' },
  stopped: { icon: IconPlayerStopFilled, tone: 'note' },
  failed: { icon: IconCircleX, tone: 'fault' },
  lost: { icon: IconBan, tone: 'fault' },
  ok: { icon: IconCircleCheck, tone: 'ok' },
  adopted: { icon: IconCircleCheck, tone: 'ok' },
  ready: { icon: IconCircleCheck, tone: 'ok' },
  warning: { icon: IconAlertTriangle, tone: 'wait' },
  draining: { icon: IconArrowBarToDown, tone: 'wait' },
  observed: { icon: IconInfoCircle, tone: 'note' },
  active: { icon: IconPlayerPlayFilled, tone: 'run' },
  planned: { icon: IconClockHour4, tone: 'wait' },
  waiting: { icon: IconClockHour4, tone: 'wait' },
  requested: { icon: IconClockHour4, tone: 'wait' },
  held: { icon: IconPlayerPauseFilled, tone: 'wait' },
  paused: { icon: IconPlayerPauseFilled, tone: 'wait' },
  warn: { icon: IconAlertTriangle, tone: 'wait' },
  taken: { icon: IconAlertTriangle, tone: 'wait' },
  ended: { icon: IconCheck, tone: 'note' },
  sent: { icon: IconCircleCheck, tone: 'ok' },
  verified: { icon: IconCircleCheck, tone: 'ok' },
  sealed: { icon: IconLock, tone: 'note' },
  intact: { icon: IconCircleCheck, tone: 'ok' },
  enabled: { icon: IconCircleCheck, tone: 'ok' },
  up: { icon: IconCircleCheck, tone: 'ok' },
  reachable: { icon: IconCircleCheck, tone: 'ok' },
  accepted: { icon: IconCircleCheck, tone: 'ok' },
  disabled: { icon: IconBan, tone: 'note' },
  silent: { icon: IconBan, tone: 'fault' },
  changed: { icon: IconCircleX, tone: 'fault' },
  fail: { icon: IconCircleX, tone: 'fault' },
  dead: { icon: IconCircleX, tone: 'fault' },
  down: { icon: IconCircleX, tone: 'fault' },
}
const UNKNOWN_LOOK = { icon: IconInfoCircle, tone: 'note' as Tone }

export function State(props: { state: string }) {
  const { t } = useTranslation('shell')
  const { icon: Glyph, tone } = LOOKS[props.state] ?? UNKNOWN_LOOK
  return (
    <span className={`state s-${tone}`}>
      <Glyph size={13} stroke={2} aria-hidden />
      {t(`state.${props.state}`, { defaultValue: props.state })}
    </span>
  )
}
