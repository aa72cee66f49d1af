import { useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useStreamState } from '../live/live'
import { formatDuration } from '../ui/format'

/** Whether what the pages show is current: "live", or since when it is not. */
export function LiveState() {
  const { t } = useTranslation('shell')
  const state = useStreamState()
  const [now, setNow] = useState(Date.now())
  useEffect(() => {
    if (state.phase !== 'stopped') return
    setNow(Date.now())
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [state])
  const words =
    state.phase === 'stopped'
      ? t('live.stopped', { time: formatDuration((now - state.sinceMs) / 1000) })
      : t(`live.${state.phase}`)
  return (
    <span className="live" data-phase={state.phase}>
      <i aria-hidden />
      <span role="status">{words}</span>
    </span>
  )
}
